"""The screens. Textual and rich are imported here and nowhere else."""
