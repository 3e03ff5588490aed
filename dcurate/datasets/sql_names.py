"""Functions of DuckDB whose value depends on their arguments alone."""

from __future__ import annotations

_OPERATORS = """
+ - * / // % ** ^ & | << >> ~ ! @ || && <@ @> ^@ ~~ !~~ ~~* !~~* ~~~ -> ->>
"""
_NUMBERS = """
abs acos acosh add asin asinh atan atan2 atanh bit_count cbrt ceil ceiling cos cosh cot degrees divide even exp
factorial fdiv floor fmod gamma gcd greatest greatest_common_divisor isfinite isinf isnan lcm least
least_common_multiple lgamma ln log log10 log2 mod multiply nextafter pi pow power radians round round_even
roundbankers sign signbit sin sinh sqrt subtract tan tanh trunc xor
"""
_TEXTS = """
array_to_string array_to_string_comma_default ascii bar base64 bin bit_length bit_position bitstring char_length
character_length chr concat concat_ws contains damerau_levenshtein decode editdist3 encode ends_with format
format_bytes formatReadableDecimalSize formatReadableSize from_base64 from_binary from_hex get_bit hamming hex
ilike_escape instr jaccard jaro_similarity jaro_winkler_similarity lcase left left_grapheme len length
length_grapheme levenshtein like_escape lower lpad ltrim md5 md5_number md5_number_lower md5_number_upper mismatches
nfc_normalize not_ilike_escape not_like_escape octet_length ord overlay parse_dirname parse_dirpath parse_filename
parse_path position prefix printf regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches
regexp_replace regexp_split_to_array repeat replace reverse right right_grapheme rpad rtrim set_bit sha1 sha256 split
split_part starts_with str_split str_split_regex string_split string_split_regex string_to_array strip_accents strlen
strpos substr substring substring_grapheme suffix to_base to_base64 to_binary to_hex translate trim ucase unbin unhex
unicode upper url_decode url_encode
"""
_TIMES = """
century date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname dayofmonth
dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us era hour isodow isoyear julian last_day
make_date make_time make_timestamp make_timestamp_ms make_timestamp_ns make_timestamptz microsecond millennium
millisecond minute month monthname nanosecond normalized_interval quarter second strftime strptime time_bucket
timezone timezone_hour timezone_minute to_centuries to_days to_decades to_hours to_microseconds to_millennia
to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years try_strptime week weekday
weekofyear year yearweek
"""
_LISTS = """
apply array_append array_apply array_cat array_concat array_contains array_cosine_distance array_cosine_similarity
array_cross_product array_distance array_distinct array_dot_product array_extract array_filter array_grade_up
array_has array_has_all array_has_any array_indexof array_inner_product array_intersect array_length
array_negative_dot_product array_negative_inner_product array_pop_back array_pop_front array_position array_prepend
array_push_back array_push_front array_reduce array_resize array_reverse array_reverse_sort array_select array_slice
array_sort array_transform array_unique array_value array_where array_zip cardinality element_at filter flatten
generate_series grade_up list_any_value list_append list_apply list_avg list_bit_and list_bit_or list_bit_xor
list_bool_and list_bool_or list_cat list_concat list_contains list_cosine_distance list_cosine_similarity list_count
list_distance list_distinct list_dot_product list_element list_extract list_filter list_first list_grade_up list_has
list_has_all list_has_any list_indexof list_inner_product list_intersect list_kurtosis list_last list_mad list_max
list_median list_min list_mode list_negative_dot_product list_negative_inner_product list_pack list_position
list_prepend list_product list_reduce list_resize list_reverse list_reverse_sort list_select list_skewness list_slice
list_sort list_stddev_pop list_stddev_samp list_string_agg list_sum list_transform list_unique list_value
list_var_pop list_var_samp list_where list_zip map map_concat map_contains map_contains_entry map_contains_value
map_entries map_extract map_extract_value map_from_entries map_keys map_values range reduce row struct_concat
struct_contains struct_extract struct_extract_at struct_has struct_indexof struct_insert struct_keys struct_pack
struct_position struct_update struct_values union_extract union_tag union_value
"""
_JSON = """
array_to_json from_json from_json_strict json json_array json_array_length json_contains json_exists json_extract
json_extract_path json_extract_path_text json_extract_string json_keys json_merge_patch json_object json_pretty
json_quote json_structure json_transform json_transform_strict json_type json_valid json_value row_to_json to_json
"""
_ANY = "coalesce constant_or_null if ifnull nullif typeof"

#: Names of the functions and operators that an expression may call, in lower case.
FUNCTIONS = frozenset(
    name.lower() for names in (_OPERATORS, _NUMBERS, _TEXTS, _TIMES, _LISTS, _JSON, _ANY) for name in names.split()
)
#: What functions of Spark and other databases are called here.
OTHER_NAMES = {
    "array_size": "len",
    "charindex": "strpos",
    "date_format": "strftime",
    "get_json_object": "json_extract_string",
    "isnull": "IS NULL",
    "locate": "strpos",
    "nvl": "coalesce",
    "regexp_like": "regexp_matches",
    "regexp_substr": "regexp_extract",
    "rlike": "regexp_matches",
    "size": "len",
    "substring_index": "split_part",
    "to_date": "strptime",
    "to_json_string": "to_json",
}
#: Functions that take a lambda.
TAKE_LAMBDAS = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "array_", "list_")
    for name in ("apply", "filter", "reduce", "transform")
    if prefix or name != "transform"
)
