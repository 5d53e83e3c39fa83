"""Words that every part uses: origins of values, places in source files, reasons of graph breaks and their fixes,
options, logs.
"""
