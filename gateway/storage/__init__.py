"""Where objects live: the port every driver keeps, and the drivers."""
