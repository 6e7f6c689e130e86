"""OpenAI's dialect: completions, chat, models, embeddings. Knows no other dialect."""
