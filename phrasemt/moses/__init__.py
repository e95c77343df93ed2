"""Phrase-based translation by Moses (Koehn et al. 2007): what its programs are called with, and what they leave."""
