// A program's own data set, batch and loss; batches made ahead, and exact resume in mid-epoch.
#include <tern/tern.h>

using namespace tern;

struct House {
  float area, rooms, price;
};
struct Houses {  // a data set needs size() and get(i)
  int64_t size() const { return 1000; }
  House get(int64_t i) const {
    Rng rng = Rng(7).stream(i);
    float area = rng.uniform(), rooms = rng.uniform(), luck = rng.uniform();
    return {area, rooms, 3 * area + rooms + luck};
  }
};
struct HouseBatch {
  Tensor features, price;  // (B, 2), (B, 1)
};
HouseBatch collate(const std::vector<House>& houses) {
  std::vector<float> features, price;
  for (const House& h : houses)
    features.insert(features.end(), {h.area, h.rooms}), price.push_back(h.price);
  return {tensor(features, {std::ssize(houses), 2}), tensor(price, {std::ssize(houses), 1})};
}

Tensor quantile_loss(const Tensor& predicted, const Tensor& price, double q) {
  Tensor d = price - predicted;
  return mean(maximum(q * d, (q - 1) * d));  // smallest if a share q of the prices is below
}

struct Training {
  Rng rng{0};
  nn::Linear model{2, 1, rng};
  optim::AdamW optimizer{nn::named_parameters(model), {.lr = 1e-2}};
  datasets::Loader<HouseBatch> loader = datasets::dataset_loader(
      datasets::Dataset(Houses{}), collate, {.batch = 32, .seed = 1, .workers = 2});

  void run(int64_t batches) {
    while (batches > 0)
      if (auto batch = loader.next()) {  // nothing at the end of an epoch
        quantile_loss(model(batch->features), batch->price, .9).backward();
        optimizer.step(), optimizer.zero_grad(), --batches;
      }
  }
};

int main() {
  Training whole, begun, resumed;
  whole.run(1000), begun.run(50);  // an epoch has 32 batches
  nn::load_state_dict(resumed.model, nn::state_dict(begun.model));
  resumed.optimizer.load_state_dict(begun.optimizer.state_dict());
  resumed.loader.load_state_dict(begun.loader.state_dict());
  resumed.run(950);
  bool exact = all(eq(resumed.model.weight, whole.model.weight)).item<bool>();
  HouseBatch houses =
      *datasets::dataset_loader(datasets::Dataset(Houses{}), collate, {.batch = 1000}).next();
  double below = mean(le(houses.price, whole.model(houses.features)).to(DType::f32)).item();
  return exact && below > .85 && below < .95 ? 0 : 1;
}
