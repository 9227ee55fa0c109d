"""The CNCF Message and Event Catalog draft, read into the normal form and written out of it, by one table."""
