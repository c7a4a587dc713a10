// Package turnovertest is a broker's records and the machines of its nodes, in memory:
// what the stories and the simulation of turnovers run against. Keys, evidence and
// certificates are real; only the store and the agents are not.
package turnovertest
