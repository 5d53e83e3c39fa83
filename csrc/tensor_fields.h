// Fields of torch's tensors that its headers keep private and whose public readers are calls into another library.
// An explicit instantiation may name what is private.
#pragma once
#include <torch/csrc/autograd/python_variable.h>

namespace framelift {

template <typename Field, typename Field::type member>
struct Opened {
  friend constexpr typename Field::type field_of(Field) { return member; }
};

#define FRAMELIFT_FIELD(Name, Type, member) \
  struct Name {                             \
    using type = Type c10::TensorImpl::*;   \
    friend constexpr type field_of(Name);   \
  };                                        \
  template struct Opened<Name, &c10::TensorImpl::member>;

FRAMELIFT_FIELD(MetaField, std::unique_ptr<c10::AutogradMetaInterface>, autograd_meta_)
FRAMELIFT_FIELD(LayoutField, c10::impl::SizesAndStrides, sizes_and_strides_)
FRAMELIFT_FIELD(TypeField, caffe2::TypeMeta, data_type_)
FRAMELIFT_FIELD(DeviceField, std::optional<c10::Device>, device_opt_)
FRAMELIFT_FIELD(KeysField, c10::DispatchKeySet, key_set_)
#undef FRAMELIFT_FIELD

inline torch::autograd::AutogradMeta* autograd_of(const c10::TensorImpl* impl) {
  return static_cast<torch::autograd::AutogradMeta*>((impl->*field_of(MetaField{})).get());
}

}  // namespace framelift
