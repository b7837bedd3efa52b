// What device code uses of Thrust: its sequential algorithms, tuples, complex numbers and function objects, as libcu++
// has them. It stands for every header of Thrust; vectors, iterators and parallel algorithms are the host's.
#pragma once
#include <cuda/std/algorithm>
#include <cuda/std/complex>
#include <cuda/std/functional>
#include <cuda/std/numeric>
#include <cuda/std/tuple>
#include <cuda/std/utility>

namespace thrust {
using namespace cuda::std;
struct sequential {};
static constexpr sequential seq{}, device{};
#define TW_ALGORITHM(name) \
  using cuda::std::name; \
  template <class... T> __device__ auto name(const sequential&, T... each) { return cuda::std::name(each...); }
TW_ALGORITHM(adjacent_difference) TW_ALGORITHM(all_of) TW_ALGORITHM(any_of) TW_ALGORITHM(binary_search)
TW_ALGORITHM(copy) TW_ALGORITHM(copy_if) TW_ALGORITHM(copy_n) TW_ALGORITHM(count) TW_ALGORITHM(count_if)
TW_ALGORITHM(equal) TW_ALGORITHM(equal_range) TW_ALGORITHM(exclusive_scan) TW_ALGORITHM(fill) TW_ALGORITHM(fill_n)
TW_ALGORITHM(find) TW_ALGORITHM(find_if) TW_ALGORITHM(for_each) TW_ALGORITHM(generate) TW_ALGORITHM(inclusive_scan)
TW_ALGORITHM(inner_product) TW_ALGORITHM(is_sorted) TW_ALGORITHM(lower_bound) TW_ALGORITHM(max_element)
TW_ALGORITHM(merge) TW_ALGORITHM(min_element) TW_ALGORITHM(minmax_element) TW_ALGORITHM(mismatch)
TW_ALGORITHM(none_of) TW_ALGORITHM(partition) TW_ALGORITHM(reduce) TW_ALGORITHM(remove) TW_ALGORITHM(remove_if)
TW_ALGORITHM(replace) TW_ALGORITHM(reverse) TW_ALGORITHM(swap_ranges) TW_ALGORITHM(transform)
TW_ALGORITHM(transform_reduce) TW_ALGORITHM(unique) TW_ALGORITHM(upper_bound)
#undef TW_ALGORITHM
template <class I, class... F> __device__ void sort(I first, I last, F... less) {
  cuda::std::partial_sort(first, last, last, less...);
}
template <class I, class... F> __device__ void sort(const sequential&, I first, I last, F... less) {
  cuda::std::partial_sort(first, last, last, less...);
}
template <class I, class... T> __device__ void sequence(const sequential&, I first, I last, T... init) {
  cuda::std::iota(first, last, decltype(*first + 0)(init...));
}
template <class T = void> struct maximum {
  __host__ __device__ constexpr T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};
template <class T = void> struct minimum {
  __host__ __device__ constexpr T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
template <class T> __host__ __device__ T* raw_pointer_cast(T* pointer) { return pointer; }
}  // namespace thrust
