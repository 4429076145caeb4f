// Package benchmark compares the forecasters of this repository with R's and Python's on real demand series.
package benchmark
