// Package examples shows the sixteen techniques of modelling data without joins as programs that
// use a node, one file for each. Its tests run them and check their answers; sdk/docs/modelling.md
// explains them. It has no code that another package could import, and no main type.
package examples
