// What the device code of a torch extension uses of torch's headers: 16-bit floats, accessors of tensors, macros and
// atomics. It stands for every header of ATen, c10 and torch. Tensors, dispatch and streams are the host's.
#pragma once
#include <algorithm>
#include <assert.h>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <float.h>
#include <limits.h>
#include <stdint.h>
#include <tilewright/traits.h>
#define TW_HD __host__ __device__ __forceinline__

namespace c10 {
template <class Native> struct alignas(2) Narrow {
  unsigned short x;
  struct from_bits_t {};
  static constexpr TW_HD from_bits_t from_bits() { return from_bits_t(); }
  Narrow() = default;
  constexpr TW_HD Narrow(unsigned short bits, from_bits_t) : x(bits) {}
  TW_HD Narrow(float v) { Native n(v); x = *reinterpret_cast<unsigned short*>(&n); }
  TW_HD Narrow(Native v) : x(*reinterpret_cast<unsigned short*>(&v)) {}
  TW_HD operator Native() const { return *reinterpret_cast<const Native*>(&x); }
  TW_HD operator float() const { return float(*reinterpret_cast<const Native*>(&x)); }
};
struct Half : Narrow<__half> { using Narrow::Narrow; Half() = default; };
struct BFloat16 : Narrow<__nv_bfloat16> { using Narrow::Narrow; BFloat16() = default; };
template <class T> struct is_narrow { static constexpr bool value = false; };
template <> struct is_narrow<Half> { static constexpr bool value = true; };
template <> struct is_narrow<BFloat16> { static constexpr bool value = true; };
template <class T> using if_narrow = std::enable_if_t<is_narrow<T>::value, T>;
template <class T, class U> using beside = std::enable_if_t<
    is_narrow<T>::value && std::is_arithmetic<U>::value, std::conditional_t<std::is_integral<U>::value, T, U>>;
template <class T, class U> using compared = std::enable_if_t<
    is_narrow<T>::value && (std::is_arithmetic<U>::value || std::is_same<T, U>::value), bool>;
template <class T, class U> using compared_behind = std::enable_if_t<
    is_narrow<U>::value && std::is_arithmetic<T>::value, bool>;
template <class T> TW_HD if_narrow<T> operator-(T a) { return T(-float(a)); }
#define TW_OPERATOR(sign) \
  template <class T> TW_HD if_narrow<T> operator sign(T a, T b) { return T(float(a) sign float(b)); } \
  template <class T, class U> TW_HD beside<T, U> operator sign(T a, U b) { \
    typedef beside<T, U> R; return R(float(a) sign std::conditional_t<is_narrow<R>::value, float, R>(b)); } \
  template <class T, class U> TW_HD beside<U, T> operator sign(T a, U b) { \
    typedef beside<U, T> R; return R(std::conditional_t<is_narrow<R>::value, float, R>(a) sign float(b)); } \
  template <class T> TW_HD if_narrow<T>& operator sign##=(T& a, T b) { return a = T(float(a) sign float(b)); } \
  template <class T, class U> TW_HD std::enable_if_t<is_narrow<T>::value && std::is_arithmetic<U>::value, T&> \
  operator sign##=(T& a, U b) { return a = T(float(a) sign float(T(float(b)))); } \
  template <class T> TW_HD std::enable_if_t<is_narrow<T>::value, float&> operator sign##=(float& a, T b) { \
    return a sign##= float(b); }
TW_OPERATOR(+) TW_OPERATOR(-) TW_OPERATOR(*) TW_OPERATOR(/)
#undef TW_OPERATOR
#define TW_COMPARISON(sign) \
  template <class T, class U> TW_HD compared<T, U> operator sign(T a, U b) { \
    return float(a) sign std::conditional_t<is_narrow<U>::value, float, U>(b); } \
  template <class T, class U> TW_HD compared_behind<T, U> operator sign(T a, U b) { return a sign float(b); }
TW_COMPARISON(==) TW_COMPARISON(!=) TW_COMPARISON(<) TW_COMPARISON(>) TW_COMPARISON(<=) TW_COMPARISON(>=)
#undef TW_COMPARISON

template <class T> struct alignas(2 * sizeof(T)) complex {
  typedef T value_type;
  T real_, imag_;
  constexpr TW_HD complex(T re = T(), T im = T()) : real_(re), imag_(im) {}
  template <class U> explicit constexpr TW_HD complex(complex<U> z) : real_(z.real()), imag_(z.imag()) {}
  constexpr TW_HD T real() const { return real_; }
  constexpr TW_HD T imag() const { return imag_; }
  TW_HD complex& operator+=(complex z) { return *this = *this + z; }
  TW_HD complex& operator-=(complex z) { return *this = *this - z; }
  TW_HD complex& operator*=(complex z) { return *this = *this * z; }
  friend TW_HD complex operator+(complex a, complex b) { return complex(a.real_ + b.real_, a.imag_ + b.imag_); }
  friend TW_HD complex operator-(complex a, complex b) { return complex(a.real_ - b.real_, a.imag_ - b.imag_); }
  friend TW_HD complex operator-(complex a) { return complex(-a.real_, -a.imag_); }
  friend TW_HD complex operator*(complex a, complex b) {
    return complex(a.real_ * b.real_ - a.imag_ * b.imag_, a.real_ * b.imag_ + a.imag_ * b.real_);
  }
  friend TW_HD complex operator/(complex a, complex b) {
    T n = b.real_ * b.real_ + b.imag_ * b.imag_;
    return complex((a.real_ * b.real_ + a.imag_ * b.imag_) / n, (a.imag_ * b.real_ - a.real_ * b.imag_) / n);
  }
};
template <class T, int N> struct Array {
  T data[N];
  TW_HD T& operator[](int i) { return data[i]; }
  TW_HD const T& operator[](int i) const { return data[i]; }
};
#define TW_OF_FP8(name, native) \
  struct alignas(1) name { \
    unsigned char x; \
    struct from_bits_t {}; \
    static constexpr TW_HD from_bits_t from_bits() { return from_bits_t(); } \
    name() = default; \
    constexpr TW_HD name(unsigned char bits, from_bits_t) : x(bits) {} \
    TW_HD name(float v) { native n(v); x = n.__x; } \
    TW_HD operator float() const { native n; n.__x = x; return float(n); } \
  };
TW_OF_FP8(Float8_e4m3fn, __nv_fp8_e4m3) TW_OF_FP8(Float8_e5m2, __nv_fp8_e5m2)
#undef TW_OF_FP8
struct Float8_e4m3fnuz { unsigned char x; };  // of other makers' GPUs: a name alone
struct Float8_e5m2fnuz { unsigned char x; };
struct Scalar {};
enum class ScalarType { Byte, Char, Short, Int, Long, Half, Float, Double, Bool, BFloat16, Float8_e5m2, Float8_e4m3fn };
template <class T> struct CppTypeToScalarType { static constexpr ScalarType value = ScalarType::Float; };
template <class T> struct optional {};
template <class T> struct ArrayRef {};
}  // namespace c10

namespace std {
template <class T, unsigned short Lowest, unsigned short Infinity> struct narrow_limits : numeric_limits<float> {
  static constexpr TW_HD T lowest() { return T(Lowest, typename T::from_bits_t()); }
  static constexpr TW_HD T max() { return T(Lowest & 0x7fff, typename T::from_bits_t()); }
  static constexpr TW_HD T infinity() { return T(Infinity, typename T::from_bits_t()); }
};
template <> struct numeric_limits<c10::Half> : narrow_limits<c10::Half, 0xFBFF, 0x7C00> {};
template <> struct numeric_limits<c10::BFloat16> : narrow_limits<c10::BFloat16, 0xFF7F, 0x7F80> {};
template <> struct numeric_limits<c10::Float8_e4m3fn> : narrow_limits<c10::Float8_e4m3fn, 0xFE, 0x7F> {
  static constexpr TW_HD c10::Float8_e4m3fn max() { return c10::Float8_e4m3fn(0x7E, c10::Float8_e4m3fn::from_bits()); }
};
template <> struct numeric_limits<c10::Float8_e5m2> : narrow_limits<c10::Float8_e5m2, 0xFB, 0x7C> {
  static constexpr TW_HD c10::Float8_e5m2 max() { return c10::Float8_e5m2(0x7B, c10::Float8_e5m2::from_bits()); }
};
}  // namespace std

namespace at {
using c10::Half; using c10::BFloat16; using c10::complex; using c10::Scalar; using c10::optional;
using c10::Float8_e4m3fn; using c10::Float8_e5m2; using c10::Float8_e4m3fnuz; using c10::Float8_e5m2fnuz;
using c10::ScalarType;
struct Tensor {  // what constructors of structures ask for, on the host
  bool defined() const { return false; }
  bool is_contiguous() const { return true; }
  int64_t dim() const { return 0; }
  int64_t ndimension() const { return 0; }
  int64_t numel() const { return 0; }
  int64_t size(int64_t) const { return 0; }
  int64_t stride(int64_t) const { return 0; }
  template <class T = void> T* data_ptr() const { return nullptr; }
  template <class T = void> const T* const_data_ptr() const { return nullptr; }
  template <class T = void> T* mutable_data_ptr() const { return nullptr; }
};
template <class T, bool OfGpu = true> struct AccumulateType {
  typedef std::conditional_t<c10::is_narrow<T>::value || std::is_same<T, __half>::value, float,
                             std::conditional_t<std::is_integral<T>::value, long long, T>> type;
};
template <class T, bool OfGpu> using acc_type = typename AccumulateType<T, OfGpu>::type;
template <class T> using opmath_type = std::conditional_t<c10::is_narrow<T>::value, float, T>;
template <class T> struct numeric_limits {
  static TW_HD T lowest() { return std::numeric_limits<T>::lowest(); }
  static TW_HD T max() { return std::numeric_limits<T>::max(); }
  static TW_HD T lower_bound() {
    if constexpr (std::is_integral<T>::value) return lowest(); else return -std::numeric_limits<T>::infinity();
  }
  static TW_HD T upper_bound() {
    if constexpr (std::is_integral<T>::value) return max(); else return std::numeric_limits<T>::infinity();
  }
};
template <class T, class U> TW_HD constexpr T ceil_div(T a, U b) { return (a + b - 1) / b; }

template <class T> struct DefaultPtrTraits { typedef T* PtrType; };
template <class T> struct RestrictPtrTraits { typedef T* __restrict__ PtrType; };
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
class TensorAccessor {
 public:
  typedef typename Traits<T>::PtrType PtrType;
  TW_HD TensorAccessor(PtrType data, const index_t* sizes, const index_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  TW_HD index_t size(index_t i) const { return sizes_[i]; }
  TW_HD index_t stride(index_t i) const { return strides_[i]; }
  TW_HD PtrType data() const { return data_; }
  TW_HD decltype(auto) operator[](index_t i) const {
    if constexpr (N == 1)
      return (data_[strides_[0] * i]);
    else
      return TensorAccessor<T, N - 1, Traits, index_t>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }
 private:
  PtrType data_;
  const index_t *sizes_, *strides_;
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
class GenericPackedTensorAccessor {
 public:
  typedef typename Traits<T>::PtrType PtrType;
  TW_HD index_t size(index_t i) const { return sizes_[i]; }
  TW_HD index_t stride(index_t i) const { return strides_[i]; }
  TW_HD PtrType data() const { return data_; }
  TW_HD decltype(auto) operator[](index_t i) const {
    return TensorAccessor<T, N, Traits, index_t>(data_, sizes_, strides_)[i];
  }
 private:
  PtrType data_;
  index_t sizes_[N], strides_[N];
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, index_t>;

struct PhiloxCudaState {
  uint64_t seed_, offset_;
  uint32_t offset_intragraph_;
  bool captured_;
};
namespace cuda {
template <class T> TW_HD T ATenCeilDiv(T a, T b) { return (a + b - 1) / b; }
namespace detail {
constexpr int CUDA_NUM_THREADS = 1024;
template <class T, class index_t> struct TensorInfo {
  T* data;
  index_t sizes[25], strides[25];
  int dims;
};
template <class T, class index_t, int Dims> struct IndexToOffset {
  static TW_HD index_t get(index_t linear, const TensorInfo<T, index_t>& info) {
    index_t offset = 0;
    for (int i = (Dims < 0 ? info.dims : Dims) - 1; i > 0; --i) {
      offset += linear % info.sizes[i] * info.strides[i];
      linear /= info.sizes[i];
    }
    return offset + linear * info.strides[0];
  }
};
} }  // namespace cuda::detail
}  // namespace at
namespace torch {
using namespace at;
namespace headeronly { using namespace c10; }
namespace stable { using at::Tensor; }
}

#define C10_HOST_DEVICE __device__  // of constants, too, where NVRTC takes no __host__
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_ALWAYS_INLINE inline __attribute__((always_inline))
#define C10_LIKELY(x) (x)
#define C10_UNLIKELY(x) (x)
#define C10_RESTRICT __restrict__
#define C10_WARP_SIZE 32
#define C10_MAX_THREADS_PER_BLOCK(n) (n)
#define C10_MIN_BLOCKS_PER_SM(threads, blocks) (blocks)
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(n) __launch_bounds__(n)
#define C10_LAUNCH_BOUNDS_2(n, blocks) __launch_bounds__(n, blocks)
#define CUDA_KERNEL_ASSERT(holds) assert(holds)
#define CUDA_KERNEL_ASSERT_MSG(holds, message) assert(holds)
#define CUDA_KERNEL_LOOP_TYPE(i, n, type) \
  for (type i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < (n); i += (int64_t)blockDim.x * gridDim.x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
#define TORCH_CHECK(...) ((void)0)
#define TORCH_INTERNAL_ASSERT(...) ((void)0)
#define AT_ASSERTM(...) ((void)0)
#define AT_ASSERT(...) ((void)0)
#define AT_ERROR(...) ((void)0)

#define TW_SHUFFLE(name, kind, word) \
  template <class T> __device__ __forceinline__ T WARP_SHFL##name( \
      T value, kind lane, int width = 32, unsigned mask = 0xffffffff) { \
    return __shfl##word##_sync(mask, value, lane, width); \
  }
TW_SHUFFLE(, int, ) TW_SHUFFLE(_XOR, int, _xor) TW_SHUFFLE(_UP, unsigned, _up) TW_SHUFFLE(_DOWN, unsigned, _down)
#undef TW_SHUFFLE
__device__ __forceinline__ unsigned WARP_BALLOT(int holds, unsigned mask = 0xffffffff) {
  return __ballot_sync(mask, holds);
}

__device__ __forceinline__ c10::Half __ldg(const c10::Half* p) { return __ldg(reinterpret_cast<const __half*>(p)); }
__device__ __forceinline__ c10::BFloat16 __ldg(const c10::BFloat16* p) {
  return __ldg(reinterpret_cast<const __nv_bfloat16*>(p));
}
#define TW_IN_WORDS(T, U) __device__ __forceinline__ T atomicAdd(T* place, T v) { \
  return static_cast<T>(atomicAdd(reinterpret_cast<U*>(place), static_cast<U>(v))); }
TW_IN_WORDS(c10::Half, __half) TW_IN_WORDS(c10::BFloat16, __nv_bfloat16)
TW_IN_WORDS(long, unsigned long long) TW_IN_WORDS(long long, unsigned long long)
#undef TW_IN_WORDS
#define TW_IN_PARTS(T) __device__ __forceinline__ T atomicAdd(T* place, T v) { \
  size_t inside = reinterpret_cast<size_t>(place) & 3; \
  unsigned* word = reinterpret_cast<unsigned*>(reinterpret_cast<char*>(place) - inside); \
  unsigned shift = 8 * inside, mask = (sizeof(T) == 1 ? 0xffu : 0xffffu) << shift, seen = *word, before; \
  do { \
    before = seen; \
    unsigned sum = unsigned(static_cast<T>((before & mask) >> shift) + v) << shift; \
    seen = atomicCAS(word, before, (before & ~mask) | (sum & mask)); \
  } while (seen != before); \
  return static_cast<T>((before & mask) >> shift); \
}
TW_IN_PARTS(unsigned char) TW_IN_PARTS(signed char) TW_IN_PARTS(short)
#undef TW_IN_PARTS
template <class T> __device__ __forceinline__ T gpuAtomicAdd(T* place, T v) { return atomicAdd(place, v); }
template <class T> __device__ __forceinline__ void gpuAtomicAddNoReturn(T* place, T v) { atomicAdd(place, v); }
namespace at { namespace native {
template <class T, class I>
__device__ __forceinline__ void fastAtomicAdd(T* data, I place, const I, T v, bool) { atomicAdd(data + place, v); }
} }
