// Folds batch axes into rows, columns or sums, and chooses panels, parts of sums and products per
// task from estimated costs.
#include "tern/core/kernels/products/gemm_plan.h"

#include <algorithm>

#include "tern/core/base/ceil_div.h"
#include "tern/core/kernels/products/gemm_tiles.h"

namespace tern::kernels {
namespace {

int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/// The strides of one axis in two matrices that share it.
struct Pair {
  int64_t x, y;
};

/// Whether an axis of `size` with strides `s` merges with an axis of `length` with strides `t`, as
/// the outer or the inner axis. If so, sets t to the strides of the merged axis.
bool merge(int64_t size, Pair s, int64_t length, Pair& t) {
  if (length == 1) {
    t = s;
    return true;
  }
  if (s.x == length * t.x && s.y == length * t.y) return true;
  if (t.x == size * s.x && t.y == size * s.y) {
    t = s;
    return true;
  }
  return false;
}

bool takes_all(const Gemm& g) {
  return blas_takes(g.m, g.k, g.a) && blas_takes(g.k, g.n, g.b) && blas_takes(g.m, g.n, g.c) &&
         g.c.col == 1;
}

/// Tries to make batch axis i part of the rows, the columns or the sums.
bool fold(Gemm& g, int i) {
  const BatchAxes& batch = g.batch;
  const int64_t size = batch.sizes[i];
  const Pair a_c{batch.a[i], batch.c[i]}, b_c{batch.b[i], batch.c[i]}, a_b{batch.a[i], batch.b[i]};
  Gemm trial = g;
  if (batch.b[i] == 0 && batch.c[i] != 0) {
    Pair rows{g.a.row, g.c.row};
    if (!merge(size, a_c, g.m, rows)) return false;
    trial.m *= size;
    trial.a.row = rows.x;
    trial.c.row = rows.y;
  } else if (batch.a[i] == 0 && batch.c[i] != 0) {
    Pair cols{g.b.col, g.c.col};
    if (!merge(size, b_c, g.n, cols)) return false;
    trial.n *= size;
    trial.b.col = cols.x;
    trial.c.col = cols.y;
  } else if (batch.c[i] == 0) {
    Pair sums{g.a.col, g.b.row};
    if (!merge(size, a_b, g.k, sums)) return false;
    trial.k *= size;
    trial.a.col = sums.x;
    trial.b.row = sums.y;
  } else {
    return false;
  }
  if (!takes_all(trial)) return false;
  trial.batch.erase(i);
  g = trial;
  return true;
}

/// Transposes the product: C^T = B^T A^T.
void swap_sides(Gemm& g) {
  auto flip = [](MatrixStrides s) { return MatrixStrides{s.col, s.row}; };
  MatrixStrides a = flip(g.a);
  g.a = flip(g.b);
  g.b = a;
  g.c = flip(g.c);
  std::swap(g.m, g.n);
  std::swap(g.batch.a, g.batch.b);
}

/// Sets C's column stride to 1 if there is one column, and removes batch axes of size 1.
void tidy(Gemm& g) {
  if (g.n == 1) g.c.col = 1;
  for (int i = g.batch.sizes.size() - 1; i >= 0; --i)
    if (g.batch.sizes[i] == 1) g.batch.erase(i);
}

void fold_all(Gemm& g) {
  for (bool again = true; again;) {
    again = false;
    for (int i = g.batch.sizes.size() - 1; i >= 0; --i) again |= fold(g, i);
  }
}

int64_t product(const Dims& d) {
  int64_t n = 1;
  for (int64_t v : d) n *= v;
  return n;
}

/// The cost of a product in multiplications and additions. A product with a vector is limited by
/// reading the matrix from memory.
double cost_of(const Gemm& g) {
  double flops = 2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) *
                 static_cast<double>(std::max<int64_t>(g.k, 1));
  return g.m == 1 || g.n == 1 ? 16 * flops : flops;
}

/// The best number of tasks for a total cost. Each panel packs its part of A and B again, and BLAS
/// packs more than our tiles do. With BLAS, few large panels are faster than many, as long as every
/// thread has a panel.
int64_t tasks_for(double cost, bool tiles) {
  if (cost < 4e6) return 1;
  if (cost < (tiles ? 12e6 : 32e6)) return 2;
  if (cost < (tiles ? 40e6 : 3e9)) return 4;
  return tiles && cost > 2e9 ? 16 : 8;
}

/// The same for many threads if tiles compute the panels: then no bit depends on the panels. Tasks
/// take 10 microseconds or more, and each thread gets an equal number of tasks.
int64_t tasks_for_threads(double cost, int64_t wanted, int64_t threads) {
  constexpr int64_t kFewThreads = 4;
  constexpr double kTaskCost = 1e6;
  if (threads <= kFewThreads || cost < 2 * kTaskCost) return wanted;
  const auto most = static_cast<int64_t>(cost / kTaskCost);
  if (most <= threads) return std::max(wanted, most);
  return std::max(ceil_div(wanted, threads) * threads, threads);
}

/// Chooses the grid of about `panels` panels that packs least, with minimal rows / m + columns / n.
void cut_panels(GemmPlan& p, int64_t panels, bool tiles) {
  constexpr int64_t kMinRows = 16, kMinCols = 32, kMaxElements = int64_t{1} << 20;
  const Gemm& g = p.g;
  const int64_t min_cols = tiles ? ceil_div(g.n, kMaxTileColumns) : 1;  // panels per row
  panels = std::max(panels, ceil_div(g.m * g.n, kMaxElements));
  double best = 0;
  p.grid_rows = p.grid_cols = 1;
  for (int64_t r = 1; r <= panels; ++r) {
    int64_t c = std::max(min_cols, ceil_div(panels, r));
    if (r > 1 && g.m / r < kMinRows) break;
    if (c > 1 && g.n / c < kMinCols) c = std::max<int64_t>(1, g.n / kMinCols);
    double work = static_cast<double>(r) / static_cast<double>(g.m) +
                  static_cast<double>(c) / static_cast<double>(g.n);
    // A grid with fewer panels than wanted counts as slower in proportion.
    work *= static_cast<double>(panels) / static_cast<double>(std::min(panels, r * c));
    if (r > 1 && work >= best) continue;
    best = work;
    p.grid_rows = r;
    p.grid_cols = c;
  }
  p.rows = std::min(g.m, round_up(ceil_div(g.m, p.grid_rows), tiles ? 1 : 4));
  p.cols = std::min(g.n, round_up(ceil_div(g.n, p.grid_cols), tiles ? 32 : 16));
  p.grid_rows = ceil_div(g.m, p.rows);
  p.grid_cols = ceil_div(g.n, p.cols);
}

/// Cuts long sums if there are at most half as many panels as `wanted` tasks. Then cuts them for up
/// to 64 tasks, so that more threads have work too.
void cut_sums(GemmPlan& p, double cost, int64_t wanted) {
  constexpr int64_t kMinLength = 128, kMaxPartial = int64_t{1} << 22;
  constexpr double kTaskCost = 1e6, kMostTasks = 64;
  const Gemm& g = p.g;
  int64_t tasks = p.batches * p.grid_rows * p.grid_cols;
  if (wanted / tasks > 1)
    wanted = std::max(wanted, static_cast<int64_t>(std::min(cost / kTaskCost, kMostTasks)));
  int64_t splits = std::min(wanted / tasks, p.terms * g.k / kMinLength);
  splits = std::min(splits, 1 + kMaxPartial / (p.batches * g.m * g.n));
  p.splits = std::max<int64_t>(splits, 1);
  p.k_blocks = std::max({int64_t{1}, ceil_div(p.splits, p.terms), ceil_div(g.k, kMaxInt)});
}

}  // namespace

void BatchAxes::add(int64_t size, int64_t stride_a, int64_t stride_b, int64_t stride_c) {
  sizes.push_back(size);
  a.push_back(stride_a);
  b.push_back(stride_b);
  c.push_back(stride_c);
}

void BatchAxes::erase(int axis) {
  for (Dims* d : {&sizes, &a, &b, &c}) d->erase(axis);
}

GemmPlan plan_gemm(const Gemm& gemm, bool tiles, int64_t threads) {
  GemmPlan p{};
  p.g = gemm;
  Gemm& g = p.g;
  p.swapped = !(g.c.col == 1 || g.n == 1);
  if (p.swapped) swap_sides(g);
  tidy(g);
  if (g.m * g.n * g.k > 0) fold_all(g);
  for (int i = g.batch.sizes.size() - 1; i >= 0; --i) {
    if (g.batch.c[i] != 0) continue;
    p.sums.add(g.batch.sizes[i], g.batch.a[i], g.batch.b[i], 0);
    g.batch.erase(i);
  }
  p.batches = product(g.batch.sizes);
  p.terms = product(p.sums.sizes);
  p.rows = p.cols = p.grid_rows = p.grid_cols = p.group = p.k_blocks = p.splits = 1;
  if (p.batches * g.m * g.n == 0) return p;
  double each = cost_of(g) * static_cast<double>(std::max<int64_t>(p.terms, 1));
  const double cost = each * static_cast<double>(p.batches);
  const int64_t wanted = tasks_for(cost, tiles);
  cut_panels(p, ceil_div(wanted, p.batches), tiles);
  if (p.terms > 0 && g.k > 0) cut_sums(p, cost, wanted);
  // The sums were cut by the shape only. Panels may now be cut further by the number of threads.
  const int64_t finer = tasks_for_threads(cost, wanted, threads), tasks = p.batches * p.splits;
  if (tiles && finer > tasks * p.grid_rows * p.grid_cols) {
    GemmPlan cut = p;
    cut_panels(cut, ceil_div(finer, tasks), tiles);
    p = cut;
  }
  // A task has several small products, so that distributing tasks costs little. Writing C limits
  // products with short sums.
  constexpr double kTaskCost = 1e6, kWrite = 32;
  if (p.grid_rows * p.grid_cols * p.splits == 1) {
    each = std::max(each, kWrite * static_cast<double>(g.m) * static_cast<double>(g.n));
    auto grouped = [&](double task) {
      return std::clamp<int64_t>(static_cast<int64_t>(task / (each + 1000)), 1, p.batches);
    };
    p.group = grouped(kTaskCost);
    // Makes tasks shorter if some threads would have none.
    const int64_t groups = ceil_div(p.batches, p.group);
    if (groups >= 4 && groups < threads) p.group = grouped(kTaskCost / 4);
  }
  return p;
}

}  // namespace tern::kernels
