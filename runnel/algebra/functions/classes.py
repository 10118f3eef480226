"""Every aggregate function of Spark 4.1 with its class, as the support table shows it."""

from __future__ import annotations

_SUMS = "additive (integers, floats by exact limbs, decimals up to 27 digits or up to 6 after the point)"
_MOMENTS = "additive (integers up to INT, decimals up to 10 digits); else touched groups, below another operator by a fold of the sorted values"
_BITS = "additive (integers up to INT); BIGINT "
_INSERTS = "mergeable on inserts"
_GROUPS = "touched groups"
_FOLDED = "touched groups, below another operator by a fold of the sorted values"
_DETERMINED = "touched groups, after a rewrite that makes the result independent of the order of rows"
_RANKED = "mergeable on inserts, after a rewrite that decides between rows of the same rank"
_ENDS = "mergeable on inserts, after a rewrite that makes the result independent of the order of rows"
_ARBITRARY_MERGED = "mergeable on inserts, at the root of a query only: one of the results that the order of rows permits, and `verify` leaves it out"
_ARBITRARY = "touched groups, at the root of a query only: one of the results that the order of rows permits, and `verify` leaves it out"

CLASSES: dict[str, str] = {
    "any": "additive",
    "any_value": _ENDS,
    "approx_count_distinct": "touched groups",
    "approx_percentile": _DETERMINED,
    "approx_top_k": _ARBITRARY,
    "approx_top_k_accumulate": _ARBITRARY,
    "approx_top_k_combine": _ARBITRARY,
    "array_agg": _DETERMINED,
    "avg": _SUMS,
    "bit_and": f"{_BITS}{_INSERTS}",
    "bit_or": f"{_BITS}{_INSERTS}",
    "bit_xor": f"{_BITS}{_GROUPS}",
    "bitmap_and_agg": _INSERTS,
    "bitmap_construct_agg": _INSERTS,
    "bitmap_or_agg": _INSERTS,
    "bool_and": "additive",
    "bool_or": "additive",
    "collect_list": _DETERMINED,
    "collect_set": _DETERMINED,
    "corr": _MOMENTS,
    "count": "additive",
    "count_if": "additive",
    "count_min_sketch": _GROUPS,
    "covar_pop": _MOMENTS,
    "covar_samp": _MOMENTS,
    "every": "additive",
    "first": _ENDS,
    "first_value": _ENDS,
    "grouping": "describes the grouping set",
    "grouping_id": "describes the grouping set",
    "histogram_numeric": _ARBITRARY,
    "hll_sketch_agg": _ARBITRARY_MERGED,
    "hll_union_agg": _ARBITRARY_MERGED,
    "kll_merge_agg_bigint": _ARBITRARY,
    "kll_merge_agg_double": _ARBITRARY,
    "kll_merge_agg_float": _ARBITRARY,
    "kll_sketch_agg_bigint": _ARBITRARY,
    "kll_sketch_agg_double": _ARBITRARY,
    "kll_sketch_agg_float": _ARBITRARY,
    "kurtosis": _FOLDED,
    "last": _ENDS,
    "last_value": _ENDS,
    "listagg": _DETERMINED,
    "max": _INSERTS,
    "max_by": _RANKED,
    "mean": _SUMS,
    "median": _GROUPS,
    "min": _INSERTS,
    "min_by": _RANKED,
    "mode": _DETERMINED,
    "percentile": _GROUPS,
    "percentile_approx": _DETERMINED,
    "percentile_cont": _GROUPS,
    "percentile_disc": _GROUPS,
    "regr_avgx": _SUMS,
    "regr_avgy": _SUMS,
    "regr_count": "additive",
    "regr_intercept": _MOMENTS,
    "regr_r2": _MOMENTS,
    "regr_slope": _MOMENTS,
    "regr_sxx": _MOMENTS,
    "regr_sxy": _MOMENTS,
    "regr_syy": _MOMENTS,
    "skewness": _FOLDED,
    "some": "additive",
    "std": _MOMENTS,
    "stddev": _MOMENTS,
    "stddev_pop": _MOMENTS,
    "stddev_samp": _MOMENTS,
    "string_agg": _DETERMINED,
    "sum": _SUMS,
    "theta_intersection_agg": _GROUPS,
    "theta_sketch_agg": _GROUPS,
    "theta_union_agg": _GROUPS,
    "try_avg": _GROUPS,
    "try_sum": _GROUPS,
    "var_pop": _MOMENTS,
    "var_samp": _MOMENTS,
    "variance": _MOMENTS,
}
"""DISTINCT puts every function into the class of touched groups."""

ARBITRARY = frozenset(name for name, how in CLASSES.items() if how in (_ARBITRARY, _ARBITRARY_MERGED))
"""Functions whose result follows the order of rows and cannot be made to follow from the rows alone."""
