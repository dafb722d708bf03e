"""Pure functions over the model: accounting, filtering, grouping, findings, the document."""
