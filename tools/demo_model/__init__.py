"""Makes the bundled story model: prepare, tokenizer, train, export, quantise, evaluate.

Each step is a module with a command of its own; README.md has the recipes. PyTorch, `tokenizers`
and `gguf` are needed here and nowhere else, so srbwriter itself must never import this package.
"""
