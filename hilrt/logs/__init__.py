"""Logs as files: look into them, cut and join them, exchange them with other tools, play them."""
