"""What a model is shown, what it answered and what that is worth; who answers is elsewhere."""
