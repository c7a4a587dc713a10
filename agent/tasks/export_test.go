package tasks

// Box is for tests with the agent's real ledger, which imports this package.
var Box = box
