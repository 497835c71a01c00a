"""Who sent a request and what they may do: pure; the time is an argument."""
