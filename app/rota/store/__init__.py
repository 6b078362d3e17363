"""What is kept: the database seam, its two implementations, and one store per aggregate."""
