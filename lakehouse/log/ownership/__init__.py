"""Who owns an entity that several documents speak of: their claims, the verdict, who lost and waits, and the findings."""
