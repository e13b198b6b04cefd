"""The Model Context Protocol: the tree as tools and resources for programs that use language models."""
