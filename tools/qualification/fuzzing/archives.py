"""FMUs and systems of FMUs as samples, without binaries."""

from __future__ import annotations

from tools.qualification.fuzzing.samples import packed

_FMI2 = """<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="2.0" modelName="mass" guid="{1}" numberOfEventIndicators="0">
<CoSimulation modelIdentifier="mass" canHandleVariableCommunicationStepSize="true"
 maxOutputDerivativeOrder="1" canGetAndSetFMUstate="true" providesDirectionalDerivative="true"/>
<UnitDefinitions><Unit name="N"><BaseUnit kg="1" m="1" s="-2" factor="1000"/></Unit>
</UnitDefinitions><TypeDefinitions><SimpleType name="Mode"><Enumeration>
<Item name="off" value="1"/><Item name="on" value="2"/></Enumeration></SimpleType></TypeDefinitions>
<DefaultExperiment startTime="0" stopTime="10" tolerance="1e-6" stepSize="0.01"/>
<ModelVariables>
<ScalarVariable name="F" valueReference="1" causality="input"><Real start="0" unit="N" min="-1e5"/>
</ScalarVariable>
<ScalarVariable name="x" valueReference="2" causality="output" initial="exact"><Real start="1"/>
</ScalarVariable>
<ScalarVariable name="der(x)" valueReference="3"><Real derivative="2"/></ScalarVariable>
<ScalarVariable name="gear" valueReference="4" causality="input" variability="discrete">
<Integer start="3" min="0" max="6"/></ScalarVariable>
<ScalarVariable name="mode" valueReference="5" causality="parameter" variability="fixed">
<Enumeration declaredType="Mode" start="1"/></ScalarVariable>
<ScalarVariable name="on" valueReference="6" causality="input" variability="discrete">
<Boolean start="true"/></ScalarVariable>
</ModelVariables>
<ModelStructure><Outputs><Unknown index="2" dependencies="1 3"/></Outputs>
<Derivatives><Unknown index="3" dependencies="1" dependenciesKind="fixed"/></Derivatives>
</ModelStructure></fmiModelDescription>
"""
_FMI3 = """<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="3.0" modelName="mass" instantiationToken="1">
<CoSimulation modelIdentifier="mass" canHandleVariableCommunicationStepSize="true"
 providesIntermediateUpdate="true" hasEventMode="true" mightReturnEarlyFromDoStep="true"
 canGetAndSetFMUState="true" providesDirectionalDerivatives="true"/>
<UnitDefinitions><Unit name="m"><BaseUnit m="1"/></Unit></UnitDefinitions>
<TypeDefinitions><EnumerationType name="Mode"><Item name="off" value="1"/></EnumerationType>
</TypeDefinitions><DefaultExperiment startTime="0" stopTime="10"/>
<ModelVariables>
<Float64 name="time" valueReference="0" causality="independent"/>
<UInt64 name="n" valueReference="1" causality="structuralParameter" variability="fixed" start="3"/>
<Float64 name="u" valueReference="2" causality="input" start="0 0 0" intermediateUpdate="true">
<Dimension valueReference="1"/></Float64>
<Float64 name="x" valueReference="3" causality="output" initial="exact" start="1" unit="m"/>
<Float64 name="der(x)" valueReference="4" derivative="3"/>
<Clock name="sample" valueReference="5" causality="input" intervalVariability="constant"
 intervalDecimal="0.01" shiftDecimal="0.0"/>
<Float64 name="r" valueReference="6" causality="input" variability="discrete" clocks="5" start="0"/>
<Int32 name="gear" valueReference="7" causality="input" variability="discrete" start="3"/>
<String name="label" valueReference="8" causality="parameter" variability="fixed">
<Start value="none"/></String>
<Binary name="blob" valueReference="9" causality="output" maxSize="64"/>
</ModelVariables>
<ModelStructure><Output valueReference="3" dependencies="2 4" dependenciesKind="fixed dependent"/>
<ContinuousStateDerivative valueReference="4" dependencies="2"/></ModelStructure>
</fmiModelDescription>
"""
_SSD = """<?xml version="1.0" encoding="UTF-8"?>
<ssd:SystemStructureDescription version="1.0" name="two"
 xmlns:ssd="http://ssp-standard.org/SSP1/SystemStructureDescription"
 xmlns:ssc="http://ssp-standard.org/SSP1/SystemStructureCommon"
 xmlns:ssv="http://ssp-standard.org/SSP1/SystemStructureParameterValues"
 xmlns:ssm="http://ssp-standard.org/SSP1/SystemStructureParameterMapping">
<ssd:System name="root"><ssd:ParameterBindings>
<ssd:ParameterBinding source="resources/values.ssv"/>
<ssd:ParameterBinding prefix="a."><ssd:ParameterValues><ssv:ParameterSet version="1.0" name="p">
<ssv:Parameters><ssv:Parameter name="gear"><ssv:Integer value="4"/></ssv:Parameter>
<ssv:Parameter name="on"><ssv:Boolean value="true"/></ssv:Parameter></ssv:Parameters>
</ssv:ParameterSet></ssd:ParameterValues><ssd:ParameterMapping>
<ssm:MappingEntry source="a.gear" target="a.gear"><ssc:LinearTransformation factor="2" offset="0"/>
</ssm:MappingEntry></ssd:ParameterMapping></ssd:ParameterBinding></ssd:ParameterBindings>
<ssd:Elements>
<ssd:Component name="a" source="resources/a.fmu" type="application/x-fmu-sharedlibrary">
<ssd:Connectors><ssd:Connector name="F" kind="input"><ssc:Real unit="kN"/></ssd:Connector>
</ssd:Connectors></ssd:Component>
<ssd:System name="box"><ssd:Connectors><ssd:Connector name="place" kind="output"/></ssd:Connectors>
<ssd:Elements>
<ssd:Component name="b" source="resources/b.fmu" type="application/x-fmu-sharedlibrary"/>
</ssd:Elements>
<ssd:Connections><ssd:Connection startElement="b" startConnector="x" endConnector="place"/>
</ssd:Connections></ssd:System></ssd:Elements>
<ssd:Connections>
<ssd:Connection startElement="box" startConnector="place" endElement="a" endConnector="F">
<ssc:LinearTransformation factor="-2" offset="0.5"/></ssd:Connection>
<ssd:Connection startElement="a" startConnector="x" endElement="b" endConnector="gear"/>
</ssd:Connections></ssd:System>
<ssd:DefaultExperiment startTime="0.0" stopTime="3.0"/></ssd:SystemStructureDescription>
"""
_SSV = """<?xml version="1.0" encoding="UTF-8"?>
<ssv:ParameterSet version="1.0" name="values"
 xmlns:ssv="http://ssp-standard.org/SSP1/SystemStructureParameterValues"><ssv:Parameters>
<ssv:Parameter name="a.x"><ssv:Real value="2.5" unit="mm"/></ssv:Parameter>
</ssv:Parameters></ssv:ParameterSet>
"""


def fmus() -> list[bytes]:
    """One FMU of each version."""
    binaries: dict[str, bytes | str] = {
        "binaries/linux64/mass.so": b"\x7fELF" * 20,
        "resources/a/b.txt": "x" * 300,
    }
    return [packed({"modelDescription.xml": text, **binaries}) for text in (_FMI2, _FMI3)]


def systems() -> list[bytes]:
    """A system of two FMUs, with parameters inside the file and in a separate one."""
    first, second = fmus()
    return [
        packed(
            {
                "SystemStructure.ssd": _SSD,
                "resources/values.ssv": _SSV,
                "resources/a.fmu": first,
                "resources/b.fmu": second,
            }
        )
    ]
