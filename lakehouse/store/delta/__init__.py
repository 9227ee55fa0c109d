"""What Delta's log of a table says, commits to it, and what to do when another one was quicker."""
