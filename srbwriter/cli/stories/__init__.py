"""Commands on stories. Each module is one command; none of them needs a model or a screen."""
