// Pictures of OpenCV as tensors and tensors as pictures, as docs/sharing.md shows them. Built where
// OpenCV's core is installed.
#include <tern/tern.h>

#include <memory>
#include <opencv2/core.hpp>

using namespace tern;

namespace {

/// 8-bit BGR -> (1, 3, H, W) in RGB from 0 to 1.
Tensor as_batch(const cv::Mat& picture) {
  check(picture.type() == CV_8UC3, "as_batch: the picture is not 8-bit BGR");
  const auto owner = std::make_shared<cv::Mat>(picture);  // shares the pixels and keeps them
  const Tensor bgr = Tensor::wrap<const uint8_t>(
      owner->ptr(), {picture.rows, picture.cols, 3},
      {.strides = Strides{static_cast<int64_t>(picture.step1()), 3, 1}, .owner = owner});
  return unsqueeze(permute(flip(bgr, {2}), {2, 0, 1}), 0).to(DType::f32) / 255;
}

/// (3, H, W) in RGB from 0 to 1 -> 8-bit BGR.
cv::Mat as_picture(const Tensor& rgb) {
  cv::Mat picture(static_cast<int>(rgb.size(1)), static_cast<int>(rgb.size(2)), CV_8UC3);
  const Tensor bytes = Tensor::wrap(picture.ptr(), {picture.rows, picture.cols, 3});
  copy_(bytes, permute(flip(round(clamp(rgb, 0, 1) * 255), {0}), {1, 2, 0}));
  return picture;
}

bool equal(const cv::Mat& a, const cv::Mat& b) {
  return a.size() == b.size() && a.type() == b.type() && cv::norm(a, b, cv::NORM_INF) == 0;
}

}  // namespace

int main() {
  cv::Mat picture(5, 7, CV_8UC3);
  cv::randu(picture, 0, 256);
  const Tensor x = as_batch(picture);
  check(x.shape() == Shape{1, 3, 5, 7}, "the shape");
  const cv::Vec3b at = picture.at<cv::Vec3b>(3, 2);
  for (int c = 0; c < 3; ++c)
    check(x[0][c][3][2].item<float>() == static_cast<float>(at[2 - c]) / 255, "channel {}", c);
  check(equal(as_picture(x[0]), picture), "there and back");
  const cv::Mat part = picture(cv::Rect(2, 1, 4, 3));
  check(equal(as_picture(as_batch(part)[0]), part), "a part of a picture");
}
