"""What TFRecord files of any origin hold, for people to look at.

first_records(dataset, …)   the first records, value by value
inspect(options)            features, files, and where the bytes go
"""
