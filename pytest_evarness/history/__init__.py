"""What is done with bundles of the past: judged again, compared, cut down. None is ever changed."""
