"""HTTP: the only room that imports aiohttp's server."""
