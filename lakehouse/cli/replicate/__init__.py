"""Commands that copy from other catalogs into this one, and from this one into others."""
