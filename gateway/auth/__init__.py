"""Who sent a request and what they may do: pure; the time is an argument.

`credentials_file` alone touches a file: the keys' own.
"""
