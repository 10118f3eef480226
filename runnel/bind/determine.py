def determine_calls(tree):
    return tree
