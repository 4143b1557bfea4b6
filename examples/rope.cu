// The rotary embedding of rows of D numbers: pairs (c, c + D / 2) turn by the angle of their row.

template <int D>
__global__ void rope(const float* x, const float* cos, const float* sin, float* y, int rows) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * (D / 2)) return;
  const int row = i / (D / 2), c = i % (D / 2);
  const float a = x[row * D + c], b = x[row * D + c + D / 2];
  y[row * D + c] = a * cos[i] - b * sin[i];
  y[row * D + c + D / 2] = b * cos[i] + a * sin[i];
}
