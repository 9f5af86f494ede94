"""The command line `tenure`: a thin layer over client, store and the processes; it decides nothing itself."""
