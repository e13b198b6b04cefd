"""The prices of AWS that the tables of costs are made with."""

PRICES = {  # dollars per million in us-east-1, without traffic, storage and free tiers
    "API Gateway request": 1.00,
    "Lambda request": 0.20,
    "Lambda GB-second": 16.6667,
    "DynamoDB read": 0.125,  # of an item up to 4 KB, consistent
    "DynamoDB write": 0.625,  # of an item up to 1 KB
    "S3 PUT, LIST": 5.00,
    "S3 GET, HEAD": 0.40,
    "Secrets Manager call": 5.00,
    "state transition": 25.00,
    "log GB": 500_000.0,
}
