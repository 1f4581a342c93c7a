"""What blamespan knows about other people's frameworks and file formats: one package for each."""
