"""The loop that people write to look into TFRecord without TensorFlow: protobuf (upb) parses each Example, and each
value is appended to the list of its column; checksums are not looked at.
usage: read_loop.py FOLDER [OUT.parquet]   with OUT the columns become a Parquet file."""
import glob, os, struct, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import example_pb
parse = example_pb.build()['Example'].FromString
def records(path):
    unpack = struct.Struct('<Q').unpack_from
    with open(path, 'rb', buffering=1 << 20) as f:
        while head := f.read(12):
            yield f.read(unpack(head)[0]); f.read(4)
columns = None
for path in sorted(glob.glob(os.path.join(glob.escape(sys.argv[1]), '*.tfrecord-*'))):
    for record in records(path):
        features = parse(record).features.feature
        if columns is None: columns = [(key, feature.WhichOneof('kind'), []) for key, feature in features.items()]
        for key, kind, values in columns:
            if key in features: values.extend(getattr(features[key], kind).value)
            else: values.append(None)
if len(sys.argv) > 2:
    import pyarrow as pa, pyarrow.parquet as pq
    types = {'int64_list': pa.int64(), 'float_list': pa.float32(), 'bytes_list': pa.binary()}
    pq.write_table(pa.table({key: pa.array(values, types[kind]) for key, kind, values in columns}), sys.argv[2])
print(len(columns[0][2]))
