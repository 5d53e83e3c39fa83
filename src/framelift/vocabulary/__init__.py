"""Words that every part uses: origins, places in source files, reasons of graph breaks, fixes, options, logs."""
