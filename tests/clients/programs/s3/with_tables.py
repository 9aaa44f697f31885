"""Tables as Parquet by pyarrow, Polars and DuckDB, each of which reads what the others wrote."""

import os
from pathlib import Path

import duckdb
import duckdb_extension_httpfs
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

ROWS = 200_000
HOW = {"aws_allow_http": "true"}

place = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
arrow = fs.S3FileSystem(endpoint_override=place, scheme="http")
duck = duckdb.connect()
extension, = Path(duckdb_extension_httpfs.__file__).parent.glob("extensions/*/httpfs.duckdb_extension")
duck.execute(f"load '{extension}'")
duck.execute(f"create secret (type s3, key_id 'any', secret 'any', endpoint '{place}', url_style 'path', use_ssl false)")

table = pl.DataFrame({"n": range(ROWS)}).with_columns(part=pl.col("n") % 3).to_arrow()
arrow.create_dir("tables/all")
pq.write_table(table, "tables/all/arrow.parquet", filesystem=arrow)
ds.write_dataset(table, "tables/parts", format="parquet", partitioning=["part"], filesystem=arrow)
pl.from_arrow(table).lazy().sink_parquet("s3://tables/all/polars.parquet", storage_options=HOW)
duck.execute(f"copy (select n, n % 3 as part from range({ROWS}) t(n)) to 's3://tables/all/duck.parquet'")

expected = (3 * ROWS, 3 * sum(range(ROWS)))
assert duck.sql("select count(*), sum(n) from 's3://tables/all/*.parquet'").fetchone() == expected
scan = pl.scan_parquet("s3://tables/all/*.parquet", storage_options=HOW)
assert scan.select(pl.len(), pl.col("n").sum()).collect().row(0) == expected
for name in ["arrow", "polars", "duck"]:
    assert pq.read_table(f"tables/all/{name}.parquet", filesystem=arrow)["n"].equals(table["n"]), name
assert ds.dataset("tables/parts", partitioning=["part"], filesystem=arrow).to_table().num_rows == ROWS

big = os.urandom(12 << 20)
with arrow.open_output_stream("tables/big") as out:
    out.write(big)
arrow.copy_file("tables/big", "tables/copy")
arrow.move("tables/copy", "tables/moved")
with arrow.open_input_file("tables/moved") as moved:
    assert moved.read() == big
names = sorted(it.base_name for it in arrow.get_file_info(fs.FileSelector("tables")))
assert names == ["all", "big", "moved", "parts"], names
arrow.delete_dir("tables/all")
assert arrow.get_file_info("tables/all").type == fs.FileType.NotFound
print("held")
