// The parts of <type_traits>, <limits> and <functional> that device code gets by way of torch's headers without including
// them. libcu++ has all of them, and takes a second to compile.
// No functions of std stand here: libcu++'s own would be ambiguous beside them, where a type of std is an argument.
#pragma once
namespace std {
template <class T, T V> struct integral_constant {
  static constexpr T value = V;
  typedef T value_type;
  typedef integral_constant type;
  __host__ __device__ constexpr operator T() const { return V; }
};
template <bool V> using bool_constant = integral_constant<bool, V>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;
template <bool, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool V, class T = void> using enable_if_t = typename enable_if<V, T>::type;
template <bool, class T, class U> struct conditional { typedef T type; };
template <class T, class U> struct conditional<false, T, U> { typedef U type; };
template <bool V, class T, class U> using conditional_t = typename conditional<V, T, U>::type;
template <class...> using void_t = void;
template <class T> struct type_identity { typedef T type; };

template <class T> struct remove_const : type_identity<T> {};
template <class T> struct remove_const<const T> : type_identity<T> {};
template <class T> struct remove_volatile : type_identity<T> {};
template <class T> struct remove_volatile<volatile T> : type_identity<T> {};
template <class T> struct remove_reference : type_identity<T> {};
template <class T> struct remove_reference<T&> : type_identity<T> {};
template <class T> struct remove_reference<T&&> : type_identity<T> {};
template <class T> struct remove_pointer : type_identity<T> {};
template <class T> struct remove_pointer<T*> : type_identity<T> {};
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_volatile_t = typename remove_volatile<T>::type;
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class T> struct remove_cv : type_identity<remove_const_t<remove_volatile_t<T>>> {};
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> struct decay : type_identity<remove_cv_t<remove_reference_t<T>>> {};
template <class T> using decay_t = typename decay<T>::type;
template <class T> using remove_cvref_t = decay_t<T>;

template <class T, class U> struct is_same : false_type {};
template <class T> struct is_same<T, T> : true_type {};
template <class T> struct is_pointer : false_type {};
template <class T> struct is_pointer<T*> : true_type {};
template <class T, class... Of> struct is_one_of : bool_constant<(is_same<remove_cv_t<T>, Of>::value || ...)> {};
template <class T> struct is_void : is_one_of<T, void> {};
template <class T> struct is_floating_point : is_one_of<T, float, double> {};
template <class T> struct is_integral
    : is_one_of<T, bool, char, signed char, unsigned char, short, unsigned short, int, unsigned, long, unsigned long,
                long long, unsigned long long, wchar_t, char16_t, char32_t> {};
template <class T> struct is_arithmetic : bool_constant<is_integral<T>::value || is_floating_point<T>::value> {};
template <class T, bool = is_arithmetic<T>::value> struct is_signed : bool_constant<(T(-1) < T(0))> {};
template <class T> struct is_signed<T, false> : false_type {};
template <class T> struct is_unsigned : bool_constant<is_arithmetic<T>::value && !is_signed<T>::value> {};
template <class T> struct is_const : false_type {};
template <class T> struct is_const<const T> : true_type {};
template <class T> struct is_reference : bool_constant<!is_same<T, remove_reference_t<T>>::value> {};
template <class T> struct is_array : false_type {};
template <class T> struct is_array<T[]> : true_type {};
template <class T, size_t N> struct is_array<T[N]> : true_type {};
#define TW_TRAIT(name) \
  template <class T> struct name : bool_constant<__##name(T)> {}; \
  template <class T> constexpr bool name##_v = __##name(T);
TW_TRAIT(is_class) TW_TRAIT(is_empty) TW_TRAIT(is_enum) TW_TRAIT(is_final) TW_TRAIT(is_pod) TW_TRAIT(is_standard_layout)
TW_TRAIT(is_trivial) TW_TRAIT(is_trivially_copyable) TW_TRAIT(is_union)
#undef TW_TRAIT
template <size_t Bytes, size_t Step> struct aligned_storage { struct type { alignas(Step) unsigned char bytes[Bytes]; }; };
template <size_t Bytes, size_t Step> using aligned_storage_t = typename aligned_storage<Bytes, Step>::type;
template <class T> struct alignment_of : integral_constant<size_t, alignof(T)> {};
template <class T, class U> struct is_base_of : bool_constant<__is_base_of(T, U)> {};
template <class T, class U> struct is_convertible : bool_constant<__is_convertible_to(T, U)> {};
template <class T> struct underlying_type : type_identity<__underlying_type(T)> {};
template <class T> using underlying_type_t = typename underlying_type<T>::type;
template <class T> constexpr bool is_const_v = is_const<T>::value;
template <class T> constexpr bool is_reference_v = is_reference<T>::value;
template <class T> constexpr bool is_array_v = is_array<T>::value;
template <class T, class U> constexpr bool is_base_of_v = __is_base_of(T, U);
template <class T, class U> constexpr bool is_convertible_v = __is_convertible_to(T, U);
template <class T, class U> constexpr bool is_same_v = is_same<T, U>::value;
template <class T> constexpr bool is_pointer_v = is_pointer<T>::value;
template <class T> constexpr bool is_void_v = is_void<T>::value;
template <class T> constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T> constexpr bool is_integral_v = is_integral<T>::value;
template <class T> constexpr bool is_arithmetic_v = is_arithmetic<T>::value;
template <class T> constexpr bool is_signed_v = is_signed<T>::value;
template <class T> constexpr bool is_unsigned_v = is_unsigned<T>::value;

#define TW_FUNCTOR(name, result, sign) \
  template <class T = void> struct name { \
    __host__ __device__ constexpr result operator()(const T& a, const T& b) const { return a sign b; } \
  };
TW_FUNCTOR(plus, T, +) TW_FUNCTOR(minus, T, -) TW_FUNCTOR(multiplies, T, *) TW_FUNCTOR(divides, T, /)
TW_FUNCTOR(less, bool, <) TW_FUNCTOR(greater, bool, >) TW_FUNCTOR(equal_to, bool, ==)
TW_FUNCTOR(less_equal, bool, <=) TW_FUNCTOR(greater_equal, bool, >=) TW_FUNCTOR(not_equal_to, bool, !=)
#undef TW_FUNCTOR

template <class T> struct numeric_limits {
  static constexpr bool is_specialized = is_arithmetic<T>::value, is_integer = is_integral<T>::value;
  static constexpr bool is_signed = std::is_signed<T>::value, has_infinity = false, has_quiet_NaN = false;
  static constexpr bool is_iec559 = false, is_exact = is_integer, is_bounded = is_specialized, is_modulo = !is_signed;
  static constexpr int digits = 8 * sizeof(T) - is_signed, digits10 = digits * 301 / 1000, radix = 2;
  static __host__ __device__ constexpr T max() {
    return is_same_v<T, bool> ? T(1) : is_signed ? T((((T(1) << (digits - 1)) - 1) << 1) + 1) : T(~T(0));
  }
  static __host__ __device__ constexpr T min() { return is_signed ? T(-max() - 1) : T(0); }
  static __host__ __device__ constexpr T lowest() { return min(); }
};
#define TW_LIMITS(T, most, least, step, bits, inf, nan) \
  template <> struct numeric_limits<T> { \
    static constexpr bool is_specialized = true, is_integer = false, is_signed = true; \
    static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true; \
    static constexpr bool is_iec559 = true, is_exact = false, is_bounded = true, is_modulo = false; \
    static constexpr int digits = bits, digits10 = (bits - 1) * 301 / 1000, max_digits10 = 2 + bits * 301 / 1000; \
    static constexpr int radix = 2; \
    static __host__ __device__ constexpr T max() { return most; } \
    static __host__ __device__ constexpr T lowest() { return -most; } \
    static __host__ __device__ constexpr T min() { return least; } \
    static __host__ __device__ constexpr T epsilon() { return step; } \
    static __host__ __device__ constexpr T infinity() { return inf; } \
    static __host__ __device__ constexpr T quiet_NaN() { return nan; } \
  };
TW_LIMITS(float, 3.402823466e+38F, 1.175494351e-38F, 1.1920929e-07F, 24, __builtin_bit_cast(float, 0x7f800000),
          __builtin_bit_cast(float, 0x7fffffff))
TW_LIMITS(double, 1.7976931348623157e+308, 2.2250738585072014e-308, 2.220446049250313e-16, 53,
          __builtin_bit_cast(double, 0x7ff0000000000000ull), __builtin_bit_cast(double, 0x7fffffffffffffffull))
#undef TW_LIMITS
}  // namespace std
