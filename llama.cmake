# Compiles of llama.cpp only what srbwriter uses, in about half the time, and installs it once:
#   CMAKE_ARGS="-DCMAKE_PROJECT_llama_cpp_INCLUDE=$PWD/llama.cmake" pip install .
# llama-cpp-python otherwise compiles llama.cpp's helpers for its own programs and for pictures too, and puts each
# library into two folders, three times in each: a wheel cannot hold the links between a library's names.
set(LLAMA_BUILD_COMMON OFF)
set(LLAVA_BUILD OFF)
set(CMAKE_PLATFORM_NO_VERSIONED_SONAME ON)
set(CMAKE_INSTALL_LIBDIR llama_cpp/lib)
set(CMAKE_INSTALL_INCLUDEDIR llama_cpp/include)
