def faithful(tree):
    return tree
