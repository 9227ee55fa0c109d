"""An event against the index of definitions: what decides, which match is the most specific, what came nearest."""
