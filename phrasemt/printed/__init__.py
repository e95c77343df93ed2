"""The figures that the papers print (one YAML file for each paper), and their reader."""
