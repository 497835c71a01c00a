"""What the client's commands do: which objects a command line means, and what becomes of each."""
