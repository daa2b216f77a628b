"""What the lessons show: readings and prices, a client of Kafka, the timeline and its pictures."""
