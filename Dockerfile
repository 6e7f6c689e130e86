# The HTTP server, with the bundled model or another one:
#   docker build -t srbwriter .
#   docker run -p 9090:9090 srbwriter --api-key choose-one
#   docker run -p 9090:9090 -v ~/models:/models:ro srbwriter --api-key choose-one -m /models/novelist.gguf
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends build-essential cmake git
COPY . /srbwriter
# GGML_NATIVE=off: the image runs on other x86-64 processors with AVX2 than the one that builds it.
RUN python -m venv /opt/srbwriter \
 && CMAKE_ARGS="-DGGML_NATIVE=off -DCMAKE_PROJECT_llama_cpp_INCLUDE=/srbwriter/llama.cmake" \
    /opt/srbwriter/bin/pip install --no-cache-dir /srbwriter

FROM python:3.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home writer
COPY --from=build /opt/srbwriter /opt/srbwriter
USER writer
WORKDIR /home/writer
EXPOSE 9090
HEALTHCHECK --start-period=60s --interval=10s \
  CMD ["/opt/srbwriter/bin/python", "-c", "import urllib.request as u; u.urlopen('http://localhost:9090/health', timeout=5)"]
ENTRYPOINT ["/opt/srbwriter/bin/srbwriter", "--serve", "--host", "0.0.0.0", "--port", "9090"]
