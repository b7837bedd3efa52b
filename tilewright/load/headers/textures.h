#pragma once
// Texture references, which CUDA 12 has no longer: texels of their own behind a description, as ir.tensor_map lays it out.
#ifndef TILEWRIGHT_FILTER
#define TILEWRIGHT_FILTER 0
#endif
#ifndef TILEWRIGHT_ADDRESS
#define TILEWRIGHT_ADDRESS 1
#endif
#ifndef TILEWRIGHT_NORMALIZED
#define TILEWRIGHT_NORMALIZED 0
#endif
namespace tilewright {
enum : unsigned { values = 2048 };  // more are no constants for NVRTC
template <class T> struct texel_of;
template <int channels> struct floats;
template <> struct floats<1> { using type = float; };
template <> struct floats<2> { using type = float2; };
template <> struct floats<4> { using type = float4; };
template <int dim> struct sides { enum : unsigned { x = 16, y = 16, z = values / 256 }; };
template <> struct sides<1> { enum : unsigned { x = values, y = 0, z = 0 }; };
template <> struct sides<2> { enum : unsigned { x = 64, y = values / 64, z = 0 }; };
template <> struct sides<0xF1> { enum : unsigned { x = 64, y = values / 64, z = 0 }; };
#define TILEWRIGHT_TEXEL(name, base, count, code) \
  template <> struct texel_of<name> { using channel = base; enum : unsigned { channels = count, number = code }; };
#define TILEWRIGHT_TEXELS(name, base, code) \
  TILEWRIGHT_TEXEL(base, base, 1, code) TILEWRIGHT_TEXEL(name##1, base, 1, code) \
  TILEWRIGHT_TEXEL(name##2, base, 2, code) TILEWRIGHT_TEXEL(name##4, base, 4, code)
TILEWRIGHT_TEXELS(uchar, unsigned char, 0) TILEWRIGHT_TEXELS(char, signed char, 1)
TILEWRIGHT_TEXELS(ushort, unsigned short, 2) TILEWRIGHT_TEXELS(short, short, 3)
TILEWRIGHT_TEXELS(uint, unsigned int, 4) TILEWRIGHT_TEXELS(int, int, 5) TILEWRIGHT_TEXELS(float, float, 7)
TILEWRIGHT_TEXEL(char, char, 1, 1)
template <class T, int mode> struct read_as { using type = T; };
template <class T> struct read_as<T, 1> { using type = typename floats<texel_of<T>::channels>::type; };
}
template <class T, int dim = 1, int mode = 0> struct alignas(64) texture {
  using texel = tilewright::texel_of<T>;
  using side = tilewright::sides<dim>;
  using channel = typename texel::channel;
  using read = typename tilewright::read_as<T, mode>::type;
  unsigned long long start = 0;
  unsigned extents[3] = {side::x / (dim == 1 ? texel::channels : 1),
                         side::y / (side::z ? 1 : texel::channels), side::z / texel::channels};
  unsigned char channels = texel::channels, number = texel::number, filter = TILEWRIGHT_FILTER;
  unsigned char is_normalized = TILEWRIGHT_NORMALIZED, floats = mode;
  unsigned char addresses[3] = {TILEWRIGHT_ADDRESS, TILEWRIGHT_ADDRESS, TILEWRIGHT_ADDRESS}, unused[36] = {};
  channel values[tilewright::values] = {};
  __device__ constexpr texture() {
    for (unsigned k = 0, bits = 1; k < tilewright::values; ++k) {
      bits = bits * 1664525u + 1013904223u;
      values[k] = texel::number == 7 ? channel((bits >> 20) / 2048.0f - 1) : channel(bits >> 26);
    }
  }
  __device__ cudaTextureObject_t object() const { return reinterpret_cast<cudaTextureObject_t>(this); }
};
#define TILEWRIGHT_FETCH(name, taken, handed) \
  template <class T, int dim, int mode> \
  __device__ __forceinline__ typename texture<T, dim, mode>::read name(const texture<T, dim, mode>& t, taken) { \
    return name<typename texture<T, dim, mode>::read>(t.object(), handed); }
#define TILEWRIGHT_COMMA ,
TILEWRIGHT_FETCH(tex1Dfetch, int x, x)
TILEWRIGHT_FETCH(tex1D, float x, x)
TILEWRIGHT_FETCH(tex2D, float x TILEWRIGHT_COMMA float y, x TILEWRIGHT_COMMA y)
TILEWRIGHT_FETCH(tex3D, float x TILEWRIGHT_COMMA float y TILEWRIGHT_COMMA float z, x TILEWRIGHT_COMMA y TILEWRIGHT_COMMA z)
TILEWRIGHT_FETCH(tex1DLayered, float x TILEWRIGHT_COMMA int layer, x TILEWRIGHT_COMMA layer)
TILEWRIGHT_FETCH(tex2DLayered, float x TILEWRIGHT_COMMA float y TILEWRIGHT_COMMA int layer,
                 x TILEWRIGHT_COMMA y TILEWRIGHT_COMMA layer)
