// Package turnovertest holds a broker's records and the machines of its nodes, in memory (Book),
// for the stories and the simulation of turnovers. Keys, evidence and certificates are real;
// store and agents are simulated.
package turnovertest
