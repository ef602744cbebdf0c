//! Samples into batches.

use serde_json::json;
use shardstream::Result;
use shardstream::augment::{Augment, Ragged};
use shardstream::random::Rng;
use shardstream::sample::{
    Collate, Column, Columns, Data, Fields, Image, Placed, Split, Tensor, Value, batch_into,
};

fn image(width: u32, height: u32, first: u8) -> Value {
    let values = (0..width * height * 3).map(|v| first.wrapping_add(v as u8)).collect();
    Value::Image(Image::new(width, height, 3, Data::U8(values)).unwrap())
}

fn sample(i: u8) -> Fields<Value> {
    let mut fields = Fields::new();
    fields.insert("jpg", image(2, 1, 10 * i));
    fields.insert("txt", Value::Text(format!("text {i}")));
    fields.insert("cls", Value::Int(i64::from(i)));
    fields.insert(
        "npy",
        Value::Tensor(Tensor::new(vec![2], Data::F32(vec![f32::from(i), 0.5])).unwrap()),
    );
    fields.insert("json", Value::Json(json!({ "i": i })));
    fields
}

fn collate(bodies: Vec<Fields<Value>>) -> Result<Columns> {
    Fields::collate(bodies)
}

fn tensor(columns: &Columns, name: &str) -> Tensor {
    match columns.get(name) {
        Some(Column::Tensor(tensor)) => tensor.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn each_kind_has_its_column() {
    let columns = collate(vec![sample(1), sample(2)]).unwrap();
    let pixels = tensor(&columns, "jpg");
    assert_eq!(pixels.shape, [2, 3, 1, 2]);
    assert_eq!(pixels.data, Data::U8(vec![10, 13, 11, 14, 12, 15, 20, 23, 21, 24, 22, 25]));
    assert_eq!(tensor(&columns, "cls"), Tensor::new(vec![2], Data::I64(vec![1, 2])).unwrap());
    assert_eq!(
        tensor(&columns, "npy"),
        Tensor::new(vec![2, 2], Data::F32(vec![1.0, 0.5, 2.0, 0.5])).unwrap()
    );
    assert_eq!(columns.get("txt"), Some(&Column::Text(vec!["text 1".into(), "text 2".into()])));
    assert_eq!(
        columns.get("json"),
        Some(&Column::Values(vec![Value::Json(json!({"i": 1})), Value::Json(json!({"i": 2}))]))
    );
}

#[test]
fn order_of_fields_does_not_matter() {
    let mut turned = Fields::new();
    for (name, value) in sample(2).into_iter().collect::<Vec<_>>().into_iter().rev() {
        turned.push(name, value);
    }
    assert_eq!(
        collate(vec![sample(1), turned]).unwrap(),
        collate(vec![sample(1), sample(2)]).unwrap()
    );
}

#[test]
fn another_schema_is_refused_by_name() {
    let change = |name: &str, value: Option<Value>| {
        let mut other = sample(2);
        match value {
            Some(value) => drop(other.insert(name, value)),
            None => drop(other.remove(name)),
        }
        let by_check = other.check(&sample(1)).unwrap_err().to_string();
        assert_eq!(collate(vec![sample(1), other]).unwrap_err().to_string(), by_check);
        by_check
    };
    assert_eq!(
        change("jpg", None),
        "batch: field jpg: missing, and the first sample of the batch has it (image u1 2 x 1 x 3)"
    );
    assert_eq!(
        change("jpg", Some(image(3, 1, 0))),
        "batch: field jpg: image u1 3 x 1 x 3 in a batch of image u1 2 x 1 x 3"
    );
    assert_eq!(
        change("jpg", Some(Value::Int(1))),
        "batch: field jpg: int in a batch of image u1 2 x 1 x 3"
    );
    assert_eq!(
        change("more", Some(Value::Int(1))),
        "batch: field more: int in a batch whose first sample has no such field"
    );
    let tensor = Value::Tensor(Tensor::new(vec![1], Data::F32(vec![0.0])).unwrap());
    assert_eq!(change("npy", Some(tensor)), "batch: field npy: shape [1] in a batch of [2]");
}

#[test]
fn straight_into_the_callers_memory() {
    let bodies = || vec![sample(1), sample(2), sample(3)];
    let columns = collate(bodies()).unwrap();
    let mut buffers = Fields::new();
    for (name, length) in [("jpg", 18), ("cls", 1000), ("npy", 24)] {
        buffers.insert(name, vec![0xAAu8; length]);
    }
    let placed = batch_into(bodies(), &mut buffers).unwrap();
    for (name, column) in columns.iter() {
        match (column, placed.get(name).unwrap()) {
            (Column::Tensor(tensor), Placed::Tensor { dtype, shape }) => {
                assert_eq!((tensor.data.dtype(), &tensor.shape), (*dtype, shape), "{name}");
                let bytes = tensor.data.as_bytes();
                let buffer = buffers.get(name).unwrap();
                assert_eq!(buffer[..bytes.len()], *bytes, "{name}");
                assert!(
                    buffer[bytes.len()..].iter().all(|b| *b == 0xAA),
                    "{name}: written beyond the batch"
                );
            }
            (Column::Text(a), Placed::Text(b)) => assert_eq!(a, b),
            (Column::Values(a), Placed::Values(b)) => assert_eq!(a, b),
            other => panic!("{name}: {other:?}"),
        }
    }
    buffers.insert("npy", vec![0; 23]);
    assert_eq!(
        batch_into(bodies(), &mut buffers).unwrap_err().to_string(),
        "batch: field npy: a buffer of 23 bytes, and the batch (f4 [3, 2]) has 24"
    );
    buffers.remove("jpg");
    assert_eq!(
        batch_into(bodies(), &mut buffers).unwrap_err().to_string(),
        "batch: field jpg: no buffer for this field"
    );
}

#[test]
fn sixteen_bits_and_one_channel_have_planes_too() {
    let wide = Image::new(2, 1, 4, Data::U16(vec![1, 2, 3, 4, 501, 502, 503, 504])).unwrap();
    let planes = vec![1u16, 501, 2, 502, 3, 503, 4, 504];
    assert_eq!(wide.to_tensor(), Tensor::new(vec![4, 1, 2], Data::U16(planes.clone())).unwrap());
    let grey = Image::new(2, 2, 1, Data::U8(vec![1, 2, 3, 4])).unwrap();
    assert_eq!(grey.to_tensor().data, Data::U8(vec![1, 2, 3, 4]));
    let mut buffers = Fields::from_iter([("x".into(), vec![0; 16])]);
    batch_into(vec![Fields::from_iter([("x".into(), Value::Image(wide))])], &mut buffers).unwrap();
    let bytes: Vec<u8> = planes.iter().flat_map(|v| v.to_ne_bytes()).collect();
    assert_eq!(buffers.get("x"), Some(&bytes));
}

/// A sample with a ragged tensor of `rows` rows and a ragged picture.
fn uneven(rows: usize) -> Fields<Value> {
    let tokens: Vec<i16> = (0..rows * 2).map(|i| i as i16).collect();
    let mut fields = Fields::new();
    fields.insert("tokens", Value::Tensor(Tensor::new(vec![rows, 2], Data::I16(tokens)).unwrap()));
    let pixels = Data::U8((0..rows as u8 * 3).collect());
    fields.insert("png", Value::Image(Image::new(rows as u32, 1, 3, pixels).unwrap()));
    fields.insert("cls", Value::Int(rows as i64));
    Ragged::new(["tokens", "jpg;png"]).apply(&mut fields, &mut Rng::keyed(&[])).unwrap();
    fields
}

#[test]
fn ragged_fields_stand_one_behind_the_other() {
    let samples = || vec![uneven(2), uneven(0), uneven(3)];
    let columns = Fields::collate(samples()).unwrap();
    let Some(Column::Ragged(tokens)) = columns.get("tokens") else { panic!() };
    assert_eq!(tokens.shapes, [[2, 2], [0, 2], [3, 2]]);
    assert_eq!(tokens.offsets(), [0, 4, 4, 10]);
    assert_eq!(tokens.data, Data::I16(vec![0, 1, 2, 3, 0, 1, 2, 3, 4, 5]));
    let Some(Column::Ragged(pictures)) = columns.get("png") else { panic!() };
    assert_eq!(pictures.shapes, [[3, 1, 2], [3, 1, 0], [3, 1, 3]]);
    assert_eq!(pictures.data.as_bytes()[..6], [0, 3, 1, 4, 2, 5], "planes");

    let mut buffers =
        Fields::from_iter(["tokens", "png", "cls"].map(|name| (name.into(), vec![0u8; 64])));
    let placed = batch_into(samples(), &mut buffers).unwrap();
    let shapes = vec![vec![2, 2], vec![0, 2], vec![3, 2]];
    assert_eq!(placed.get("tokens"), Some(&Placed::Ragged { dtype: "i2", shapes }));
    assert_eq!(buffers.get("tokens").unwrap()[..20], *tokens.data.as_bytes());
    assert_eq!(buffers.get("png").unwrap()[..15], *pictures.data.as_bytes());
    let mut short = Fields::from_iter([("tokens".into(), vec![0u8; 19])]);
    let error = batch_into(samples(), &mut short).unwrap_err();
    assert_eq!(
        error.to_string(),
        "batch: field tokens: a buffer of 19 bytes, and the batch (i2 [10]) has 20"
    );

    let back = columns.split(3).unwrap();
    assert_eq!(back, samples());
}

#[test]
fn ragged_is_not_anything_goes() {
    let with = |value| Fields::from_iter([("tokens".into(), value)]);
    let ragged = |shape: Vec<usize>, data| Value::Ragged(Tensor::new(shape, data).unwrap());
    let samples = [
        with(ragged(vec![1, 2], Data::I16(vec![1, 2]))),
        with(ragged(vec![2], Data::I16(vec![1, 2]))),
        with(ragged(vec![1, 2], Data::I32(vec![1, 2]))),
        with(Value::Tensor(Tensor::new(vec![1, 2], Data::I16(vec![1, 2])).unwrap())),
    ];
    for other in &samples[1..] {
        let error = other.check(&samples[0]).unwrap_err().to_string();
        assert!(error.contains("ragged") && error.contains("field tokens"), "{error}");
    }
    let mut text = with(Value::Text("a".into()));
    let error = Ragged::new(["tokens"]).apply(&mut text, &mut Rng::keyed(&[])).unwrap_err();
    assert!(error.to_string().contains("text has no shape"), "{error}");
}

#[test]
fn a_batch_is_taken_apart_again() {
    let sample = |i: i64| {
        let mut fields = Fields::new();
        fields.insert("cls", Value::Int(i));
        fields.insert("txt", Value::Text(format!("text {i}")));
        fields.insert(
            "npy",
            Value::Tensor(Tensor::new(vec![2, 1], Data::F32(vec![i as f32, 0.5])).unwrap()),
        );
        fields.insert("json", Value::Json(json!({ "i": i })));
        fields
    };
    let samples: Vec<_> = (0..3).map(sample).collect();
    assert_eq!(Fields::collate(samples.clone()).unwrap().split(3).unwrap(), samples);
    let pairs: Vec<_> = (0..3).map(|i| (sample(i), i)).collect();
    assert_eq!(<(Fields<Value>, i64)>::collate(pairs.clone()).unwrap().split(3).unwrap(), pairs);
    let lists: Vec<_> = (0..3).map(|i| [Value::Int(i), Value::Int(-i)]).collect();
    assert_eq!(<[Value; 2]>::collate(lists.clone()).unwrap().split(3).unwrap(), lists);
    let error = Fields::collate(samples).unwrap().split(2).unwrap_err();
    assert_eq!(error.to_string(), "batch: field cls: a batch of 3 bodies for 2 samples");
}
