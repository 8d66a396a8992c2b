def profile_of(*a): return {}
def describe(p): return ""
