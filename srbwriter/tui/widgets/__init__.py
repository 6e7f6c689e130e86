"""What stands on the screens, one widget a file."""
