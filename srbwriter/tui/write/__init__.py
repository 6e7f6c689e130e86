"""The write screen: the story beside its live branches."""
